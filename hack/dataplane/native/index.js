// Replaces the functions of @cubejs-backend/native that call the native addon.
//
// The install script of the package, which downloads the addon from outside of npm, is not run. What the
// package contains as JavaScript, such as the wrappers of results, is used as it is.
// Signatures: packages/cubejs-backend-native/js/index.ts.
'use strict';

const { convert, execute } = require('./execute');
const results = require('./results');

class Missing extends Error {
  constructor(feature) {
    super(`${feature} needs Cube's native addon, which this image does not have`);
  }
}

const missing = (feature) => () => { throw new Missing(feature); };
const missingAsync = (feature) => async () => { throw new Missing(feature); };

const functions = {
  loadNative: missing('The called function'),
  // With true the server refuses configurations in Python with a message of its own.
  isFallbackBuild: () => true,
  setupLogger() {},
  resetLogger() {},

  // The port of the SQL interface stays closed; the other functions get the returned object.
  registerInterface: async (options) => ({ options }),
  shutdownInterface: async () => {},
  execSql: execute,
  sql4sql: missingAsync('The SQL of the SQL API'),
  rest4sql: convert,

  getFinalQueryResult: async (...args) => results.single(...args),
  getFinalQueryResultMulti: async (...args) => results.multi(...args),
  getCubestoreResult: missing('Cube Store'),
  parseCubestoreResultMessage: missingAsync('Cube Store'),

  buildSqlAndParams: missing('The SQL planner (CUBEJS_TESSERACT_SQL_PLANNER)'),
  transpileJs: missingAsync('CUBEJS_TRANSPILATION_NATIVE'),
  transpileYaml: missingAsync('CUBEJS_TRANSPILATION_NATIVE'),
  pythonLoadConfig: missingAsync('A configuration in Python'),
};

// The server creates the engine for every model, also without templates.
const jinja = {
  loadTemplate(file) { throw new Missing(`Jinja in ${file}`); },
  renderTemplate: async (file) => { throw new Missing(`Jinja in ${file}`); },
};

// replace replaces functions of the loaded package, which returns them to its other functions too.
function replace(native) {
  if (native.execSql !== functions.execSql) {
    Object.assign(native, functions);
    native.NativeInstance.prototype.newJinjaEngine = () => jinja;
    native.NativeInstance.prototype.loadPythonContext = async (file) => { throw new Missing(`Python in ${file}`); };
  }
  return native;
}

module.exports = { replace };
