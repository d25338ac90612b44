// Runs SQL as the native addon does: through the callbacks that the server gives it, with the caller's security context.
// Source of the format: packages/cubejs-backend-native/src/node_export.rs.
'use strict';

const results = require('./results');
const sql = require('./sql');

// rowsInLine is the number of rows in a line of the stream.
const rowsInLine = 500;

const continueWait = 'Continue wait';

const maxRows = () => Number(process.env.CUBEJS_DB_QUERY_LIMIT) || 50000;

// caller returns the arguments of callbacks that stand for the caller.
const caller = (securityContext, requestId) => ({
  request: { id: requestId, meta: { protocol: 'postgres', apiType: 'sql' } },
  session: { user: 'unknown', superuser: false, securityContext },
});

async function plan(options, statement, securityContext, requestId) {
  const { cubes } = await options.meta({ ...caller(securityContext, requestId), onlyCompilerId: false });
  return sql.plan(statement, cubes, maxRows());
}

// convert returns the JSON query of a statement for /v1/convert-query.
async function convert({ options }, statement, securityContext) {
  try {
    const { query } = await plan(options, statement, securityContext);
    return { status: 'ok', query };
  } catch (e) {
    if (e instanceof sql.Unsupported) {
      return { status: 'error', error: `Provided sql query can not be converted to rest query. (${e.message})` };
    }
    throw e;
  }
}

// execute writes the result of a statement to a stream, and ends it. Errors are a line of the stream too.
async function execute({ options }, statement, stream, securityContext, cacheMode, timezone, throwContinueWait, requestId) {
  let closed = false;
  stream.on('close', () => { closed = true; });
  try {
    const { query, columns } = await plan(options, statement, securityContext, requestId);
    const request = { ...caller(securityContext, requestId), query: timezone ? { ...query, timezone } : query, cacheMode: cacheMode || 'stale-if-slow' };
    const response = await load(options, request, throwContinueWait, () => closed);
    await write(stream, columns, response, () => closed);
    stream.end();
  } catch (e) {
    stream.end(`${JSON.stringify({ error: messageOf(e), ...(requestId ? { requestId } : {}) })}\n`);
  }
}

const messageOf = (e) => String((e && e.message) || e);

async function load(options, request, throwContinueWait, isClosed) {
  for (;;) {
    try {
      return await options.sqlApiLoad({ ...request, streaming: false });
    } catch (e) {
      if (messageOf(e) !== continueWait || throwContinueWait || isClosed()) {
        throw e;
      }
    }
  }
}

// write writes the schema and the rows. It waits when the client reads slowly.
async function write(stream, columns, response, isClosed) {
  const { rows, lastRefreshTime } = dataOf(response);
  const line = async (value) => {
    if (!stream.write(`${JSON.stringify(value)}\n`)) {
      await new Promise((resolve) => { stream.once('drain', resolve).once('close', resolve); });
    }
  };
  const schema = columns.map(({ name, type }) => ({ name, column_type: type }));
  await line(lastRefreshTime ? { schema, lastRefreshTime } : { schema });
  for (let at = 0; (at === 0 || at < rows.length) && !isClosed(); at += rowsInLine) {
    await line({ data: rows.slice(at, at + rowsInLine).map((row) => columns.map(({ key, type }) => sql.text(row[key], type))) });
  }
}

// dataOf returns the rows of a response: an object with the wrappers of a result, or in 0.35 the result itself.
function dataOf(response) {
  if (typeof response.getTransformData !== 'function') {
    const [{ data, lastRefreshTime }] = response.results;
    return { rows: data, lastRefreshTime };
  }
  const [[transform], [raw], [root]] = [response.getTransformData(), response.getRawData(), response.getRootResultObject()];
  const { data } = JSON.parse(results.single({ ...transform, resType: 'default' }, raw, root));
  return { rows: data, lastRefreshTime: root.lastRefreshTime };
}

module.exports = { execute, convert };
