// Loaded before the server (node --require): replaces the native addon and adds a version header.
// It does not change response bodies.
'use strict';

const http = require('http');
const Module = require('module');

const version = process.env.DATAPLANE_VERSION;

if (process.env.DATAPLANE_BROKEN === 'true') {
  console.error(`Version ${version} is broken on purpose`);
  process.exit(1);
}

// The install script of the server's native addon, which downloads it from outside of the registry,
// is not run. Without the addon there is no SQL interface, no Jinja and no Python.
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

// Tests read the version from the header.
const emit = http.Server.prototype.emit;
http.Server.prototype.emit = function (event, ...args) {
  if (event === 'request') {
    args[1].setHeader('X-Data-Plane-Version', version);
  }
  return emit.call(this, event, ...args);
};
