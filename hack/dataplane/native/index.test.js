'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { replace } = require('.');

// A package as TypeScript compiles it: functions call each other as properties of exports.
function loaded() {
  class NativeInstance {}
  return { rowsToColumnar: (rows) => rows, getFinalQueryResult() { throw new Error('addon'); }, NativeInstance };
}

test('functions of the addon are replaced once, and the others are kept', async () => {
  const native = loaded();
  const { rowsToColumnar } = native;
  assert.equal(replace(native), native);
  assert.equal(native.rowsToColumnar, rowsToColumnar);
  const response = await native.getFinalQueryResult({ query: {} }, Buffer.from('{"members": [], "columns": []}'), {});
  assert.equal(response.toString(), '{"data":[]}');
  const { getFinalQueryResult } = native;
  assert.equal(replace(native).getFinalQueryResult, getFinalQueryResult);
});

test('what is not there says so', async () => {
  const native = replace(loaded());
  assert.throws(() => native.buildSqlAndParams({}), /^Error: The SQL planner \(CUBEJS_TESSERACT_SQL_PLANNER\) needs Cube's native addon, which this image does not have/);
  assert.throws(() => native.getCubestoreResult({}), /Cube Store needs/);
  await assert.rejects(native.transpileYaml([]), /CUBEJS_TRANSPILATION_NATIVE needs/);
  await assert.rejects(native.sql4sql(), /The SQL of the SQL API needs/);
  const instance = new native.NativeInstance();
  const engine = instance.newJinjaEngine({});
  assert.throws(() => engine.loadTemplate('orders.yml', '{{ x }}'), /Jinja in orders.yml needs/);
  await assert.rejects(instance.loadPythonContext('globals.py', ''), /Python in globals.py needs/);
});
