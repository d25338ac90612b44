// Loaded before the server (node --require): what makes it run and be told apart in a local
// cluster. None of it changes the body of an answer.
'use strict';

const http = require('http');
const Module = require('module');

const version = process.env.DATAPLANE_VERSION;

if (process.env.DATAPLANE_BROKEN === 'true') {
  console.error(`Version ${version} is broken on purpose`);
  process.exit(1);
}

// The server's native addon is downloaded when it is installed, from outside of the registry.
// Without it there is no SQL interface, no Jinja and no Python; everything else is whole.
// Source of the functions: packages/cubejs-backend-native/js/index.ts.
const native = {
  setupLogger() {},
  isFallbackBuild: () => true,
  registerInterface: async () => ({}),
  shutdownInterface: async () => {},
  NativeInstance: class {
    newJinjaEngine() { return {}; }
    loadPythonContext() { return {}; }
  },
};

const load = Module._load;
Module._load = function (request, ...rest) {
  return request === '@cubejs-backend/native' ? native : load.call(this, request, ...rest);
};

// A test sees which version has answered.
const emit = http.Server.prototype.emit;
http.Server.prototype.emit = function (event, ...args) {
  if (event === 'request') {
    args[1].setHeader('X-Data-Plane-Version', version);
  }
  return emit.call(this, event, ...args);
};
