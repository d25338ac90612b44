// Loaded before the server (node --require), also in its worker threads: replaces the functions of the
// native addon, and adds a version header.
'use strict';

const http = require('http');
const Module = require('module');

const version = process.env.DATAPLANE_VERSION;

if (process.env.DATAPLANE_BROKEN === 'true') {
  console.error(`Version ${version} is broken on purpose`);
  process.exit(1);
}

const load = Module._load;
Module._load = function (request, ...rest) {
  const loaded = load.call(this, request, ...rest);
  return request === '@cubejs-backend/native' ? require('./native').replace(loaded) : loaded;
};

// Tests read the version from the header.
const emit = http.Server.prototype.emit;
http.Server.prototype.emit = function (event, ...args) {
  if (event === 'request') {
    args[1].setHeader('X-Data-Plane-Version', version);
  }
  return emit.call(this, event, ...args);
};
