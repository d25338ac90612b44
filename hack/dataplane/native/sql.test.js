'use strict';

const assert = require('node:assert/strict');
const { EventEmitter } = require('node:events');
const { test } = require('node:test');

const { convert, execute } = require('./execute');
const { plan, text } = require('./sql');

const cubes = [{
  name: 'orders',
  measures: [{ name: 'orders.count', type: 'number', aggType: 'count' }, { name: 'orders.totalAmount', type: 'number', aggType: 'sum' }],
  dimensions: [
    { name: 'orders.status', type: 'string' }, { name: 'orders.price', type: 'number' }, { name: 'orders.paid', type: 'boolean' },
    { name: 'orders.created_at', type: 'time' },
  ],
}, { name: 'Orders View', measures: [], dimensions: [{ name: 'Orders View.status', type: 'string' }] }];

const empty = { measures: [], dimensions: [], timeDimensions: [], segments: [], order: [], limit: 50000 };

test('statements become queries', () => {
  for (const [statement, query, names] of [
    ['SELECT status FROM orders', { dimensions: ['orders.status'], ungrouped: true }, 'status String'],
    ['select distinct_ FROM "orders"', null],
    ['SELECT status FROM orders GROUP BY status', { dimensions: ['orders.status'] }, 'status String'],
    ['SELECT o.status s, MEASURE(o."totalAmount") AS "Total" FROM orders AS o GROUP BY 1 ORDER BY 2 DESC, s ASC LIMIT 5 OFFSET 10;', {
      dimensions: ['orders.status'], measures: ['orders.totalAmount'], order: [['orders.totalAmount', 'desc'], ['orders.status', 'asc']], limit: 5, offset: 10,
    }, 's String, Total Double'],
    ['SELECT measure(count) FROM orders', { measures: ['orders.count'] }, 'measure(count) Int64'],
    [`SELECT DATE_TRUNC('MONTH', created_at) AS month, MEASURE(count) FROM orders -- by month
      GROUP BY DATE_TRUNC('month', created_at) ORDER BY month`, {
      measures: ['orders.count'], timeDimensions: [{ dimension: 'orders.created_at', granularity: 'month' }], order: [['orders.created_at', 'asc']],
    }, 'month Timestamp, measure(count) Int64'],
    ['SELECT status FROM "Orders View"', { dimensions: ['Orders View.status'], ungrouped: true }, 'status String'],
    ['SELECT paid, price, created_at FROM orders GROUP BY 1, 2, 3', { dimensions: ['orders.paid', 'orders.price', 'orders.created_at'] }, 'paid Boolean, price Double, created_at Timestamp'],
  ]) {
    if (query === null) {
      assert.throws(() => plan(statement, cubes, 50000), /not found/, statement);
      continue;
    }
    const got = plan(statement, cubes, 50000);
    assert.deepEqual(got.query, { ...empty, ...query }, statement);
    assert.equal(got.columns.map(({ name, type }) => `${name} ${type}`).join(', '), names, statement);
  }
});

test('conditions become filters', () => {
  const one = (member, operator, ...values) => (values.length ? { member: `orders.${member}`, operator, values } : { member: `orders.${member}`, operator });
  for (const [condition, ...filters] of [
    ["status = 'it''s'", one('status', 'equals', "it's")],
    ["status <> 'a' AND status != 'b'", one('status', 'notEquals', 'a'), one('status', 'notEquals', 'b')],
    ["status IN ('a', 'b')", one('status', 'equals', 'a', 'b')],
    ["status NOT IN ('a')", one('status', 'notEquals', 'a')],
    ['status IS NULL', one('status', 'notSet')],
    ['status IS NOT NULL', one('status', 'set')],
    ["status ILIKE '%a%'", one('status', 'contains', 'a')],
    ["status ILIKE 'a%'", one('status', 'startsWith', 'a')],
    ["status NOT ILIKE '%a'", one('status', 'notEndsWith', 'a')],
    ['price > -1.5', one('price', 'gt', '-1.5')],
    ['price BETWEEN 1 AND 2', one('price', 'gte', '1'), one('price', 'lte', '2')],
    ['paid = true', one('paid', 'equals', 'true')],
    ["created_at < '2026-02-01'", one('created_at', 'beforeDate', '2026-02-01T00:00:00.000')],
    ["created_at >= TIMESTAMP '2026-02-01 10:00:00.5'", one('created_at', 'afterOrOnDate', '2026-02-01T10:00:00.500')],
    ["(status = 'a' OR (price < 1 AND paid = false)) AND price <= 2", {
      or: [one('status', 'equals', 'a'), { and: [one('price', 'lt', '1'), one('paid', 'equals', 'false')] }],
    }, one('price', 'lte', '2')],
  ]) {
    assert.deepEqual(plan(`SELECT status FROM orders WHERE ${condition}`, cubes, 1).query.filters, filters, condition);
  }
});

test('other SQL is refused, and says what', () => {
  const addon = "in SQL needs Cube's native addon, which this image does not have";
  for (const [statement, message] of [
    ['SELECT 1', `"1" instead of a column ${addon}`],
    ['SELECT * FROM orders', `"*" instead of a column ${addon}`],
    ['SELECT COUNT(*) FROM orders', `the function count ${addon}`],
    ['SELECT status FROM orders JOIN users ON 1 = 1', `"join" ${addon}`],
    ['SELECT status FROM orders, users', `"," ${addon}`],
    ['SELECT status FROM (SELECT status FROM orders)', `"(" instead of a cube or view ${addon}`],
    ['SELECT status FROM orders UNION ALL SELECT status FROM orders', `"union" ${addon}`],
    ['SELECT status FROM orders GROUP BY 1 HAVING 1 = 1', `"having" ${addon}`],
    ['SELECT status FROM orders; DROP TABLE orders', `"drop" ${addon}`],
    ['WITH x AS (SELECT 1) SELECT status FROM x', `"with" instead of SELECT ${addon}`],
    ['SELECT count FROM orders', `the measure orders.count without MEASURE() ${addon}`],
    ['SELECT MEASURE(status) FROM orders', `MEASURE() of the dimension orders.status ${addon}`],
    ["SELECT status FROM orders WHERE status LIKE 'a%'", `LIKE, other than ILIKE, ${addon}`],
    ["SELECT status FROM orders WHERE status ILIKE 'a%b'", `the pattern "a%b" ${addon}`],
    ["SELECT status FROM orders WHERE status > 'a'", `> on values of type string ${addon}`],
    ["SELECT status FROM orders WHERE created_at = '2026-01-01'", `= on times ${addon}`],
    ['SELECT status FROM orders WHERE count = 1', `a condition on the measure orders.count ${addon}`],
    ['SELECT status FROM orders WHERE status = price', `the value "price" ${addon}`],
    ['SELECT status FROM orders GROUP BY 1 ORDER BY price', `GROUP BY or ORDER BY of what SELECT does not have ${addon}`],
    ['SELECT status, MEASURE(count) FROM orders', "SQL: column 'status' must appear in GROUP BY"],
    ['SELECT status, MEASURE(count) FROM orders GROUP BY 1, 2', 'SQL: GROUP BY has a measure'],
    ["SELECT DATE_TRUNC('day', status) FROM orders", 'SQL: DATE_TRUNC of orders.status, which is of type string'],
    ["SELECT status FROM orders WHERE created_at > 'yesterday'", 'SQL: "yesterday" is not a time'],
    ['SELECT status FROM secrets', "SQL: table 'secrets' not found"],
    ['SELECT secret FROM orders', "SQL: column 'secret' not found in 'orders'"],
    ['SELECT users.status FROM orders', "SQL: column 'users.status' not found in 'orders'"],
    ["SELECT 'status FROM orders", 'SQL: unexpected "\'status FROM orders"'],
    ['', `"the end" instead of SELECT ${addon}`],
  ]) {
    assert.throws(() => plan(statement, cubes, 1), { message }, statement);
  }
});

test('values are texts, as in the SQL API', () => {
  assert.deepEqual(
    [text('12.50', 'Double'), text(3, 'Int64'), text('t', 'Boolean'), text(false, 'Boolean'), text(null, 'Double'), text('x', 'String')],
    ['12.5', '3', true, false, null, 'x'],
  );
});

// stream is the server's response.
class Stream extends EventEmitter {
  constructor() {
    super();
    this.text = '';
  }

  write(line) {
    this.text += line;
    setImmediate(() => this.emit('drain'));
    return false; // the client reads slowly
  }

  end(line = '') {
    this.text += line;
    this.ended = true;
  }
}

const rows = (n) => Array.from({ length: n }, (_, i) => ({ 'orders.status': `s${i}` }));

// server has the callbacks that a server of 0.35 gives.
function server(load) {
  const asked = [];
  return {
    asked,
    instance: {
      options: {
        meta: async ({ session }) => ({ cubes: session.securityContext.blind ? [] : cubes }),
        sqlApiLoad: async (request) => { asked.push(request); return load(asked.length); },
      },
    },
  };
}

test('a result is a schema and rows, with the context of the caller', async () => {
  const { asked, instance } = server(() => ({ results: [{ data: rows(501), lastRefreshTime: '2026-01-01T00:00:00.000Z' }] }));
  const stream = new Stream();
  await execute(instance, 'SELECT status FROM orders', stream, { team: 'x' }, undefined, 'Europe/Zurich', false, 'id-span-1');
  const lines = stream.text.trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines[0], { schema: [{ name: 'status', column_type: 'String' }], lastRefreshTime: '2026-01-01T00:00:00.000Z' });
  assert.deepEqual(lines.slice(1).map(({ data }) => data.length), [500, 1]);
  assert.deepEqual([asked[0].session.securityContext, asked[0].request.id, asked[0].query.timezone], [{ team: 'x' }, 'id-span-1', 'Europe/Zurich']);
  assert.ok(stream.ended);
});

test('no rows are a line too', async () => {
  const stream = new Stream();
  await execute(server(() => ({ results: [{ data: [] }] })).instance, 'SELECT status FROM orders', stream, {});
  assert.equal(stream.text, '{"schema":[{"name":"status","column_type":"String"}]}\n{"data":[]}\n');
});

test('errors are a line', async () => {
  for (const [statement, context, load, throwContinueWait, want] of [
    ['SELECT status FROM orders', { blind: true }, null, false, '{"error":"SQL: table \'orders\' not found","requestId":"id"}\n'],
    ['SELECT status FROM orders', {}, () => { throw { message: 'refused' }; }, false, '{"error":"refused","requestId":"id"}\n'],
    ['SELECT status FROM orders', {}, () => { throw { message: 'Continue wait' }; }, true, '{"error":"Continue wait","requestId":"id"}\n'],
  ]) {
    const stream = new Stream();
    await execute(server(load).instance, statement, stream, context, undefined, undefined, throwContinueWait, 'id');
    assert.equal(stream.text, want);
    assert.ok(stream.ended);
  }
});

test('a client that does not want to be told waits', async () => {
  const { asked, instance } = server((n) => {
    if (n < 3) {
      throw new Error('Continue wait');
    }
    return { results: [{ data: rows(1) }] };
  });
  const stream = new Stream();
  await execute(instance, 'SELECT status FROM orders', stream, {});
  assert.equal(asked.length, 3);
  assert.match(stream.text, /s0/);
});

test('a client that has gone is no longer waited for', async () => {
  const stream = new Stream();
  const { asked, instance } = server(() => { stream.emit('close'); throw new Error('Continue wait'); });
  await execute(instance, 'SELECT status FROM orders', stream, {});
  assert.equal(asked.length, 1);
});

test('conversion says what cannot be converted', async () => {
  const { instance } = server();
  assert.deepEqual(await convert(instance, 'SELECT MEASURE(count) FROM orders', {}), { status: 'ok', query: { ...empty, measures: ['orders.count'] } });
  const refused = await convert(instance, 'SELECT 1', {});
  assert.equal(refused.status, 'error');
  assert.match(refused.error, /^Provided sql query can not be converted to rest query/);
  await assert.rejects(convert(instance, 'SELECT x FROM orders', {}), /column 'x' not found/);
});
