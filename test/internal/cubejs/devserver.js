// The development server of Cube with its real routes and its real page, without the parts that need the native
// library: those of queries. It writes its port to standard output.
const http = require('http');
const { createRequire } = require('module');

const installed = createRequire(process.env.QUOIN_TEST_MODULES);
const express = installed('express');
const { DevServer } = installed('@cubejs-backend/server-core/dist/src/core/DevServer');

const app = express();
app.use(express.json());
const options = {
  apiSecret: 'secret', basePath: '/cubejs-api', dockerVersion: null, livePreview: true, telemetry: false,
  externalDbTypeFn: () => 'cubestore', isReadyForQueryProcessing: () => true,
};
new DevServer({ event: () => {}, coreServerVersion: 'test', projectFingerprint: 'test' }, options).initDevEnv(app, options);
const server = http.createServer(app).listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));
