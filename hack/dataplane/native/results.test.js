'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const results = require('./results');

const annotation = {
  'orders.status': { type: 'string' },
  'orders.count': { type: 'number' },
  'orders.created_at': { type: 'time' },
  'orders.created_at.day': { type: 'time' },
  'orders.created_at.month': { type: 'time' },
  'orders.last_order': { type: 'time' },
};
const aliasToMemberNameMap = {
  orders__status: 'orders.status',
  orders__count: 'orders.count',
  orders__created_at: 'orders.created_at',
  orders__created_at_day: 'orders.created_at.day',
  orders__created_at_month: 'orders.created_at.month',
  orders__last_order: 'orders.last_order',
  orders__id: 'orders.id',
};

const transform = (options) => ({ annotation, aliasToMemberNameMap, query: {}, queryType: 'regularQuery', ...options });
const raw = (columns) => Buffer.from(JSON.stringify({ members: Object.keys(columns), columns: Object.values(columns) }));
const single = (options, columns, response = {}) => JSON.parse(results.single(transform(options), raw(columns), response));
const data = (options, columns) => single(options, columns).data;

test('aliases become members, and values stay what they are', () => {
  assert.deepEqual(data({}, { orders__status: ['shipped', null], orders__count: ['1', 2] }), [
    { 'orders.status': 'shipped', 'orders.count': '1' },
    { 'orders.status': null, 'orders.count': 2 },
  ]);
});

test('times have milliseconds and no zone', () => {
  for (const [value, want] of [
    ['2026-01-02T03:04:05.000', '2026-01-02T03:04:05.000'],
    ['2026-01-02T03:04:05.123456Z', '2026-01-02T03:04:05.123'],
    ['2026-01-02T03:04:05', '2026-01-02T03:04:05.000'],
    ['2026-01-02 03:04:05.6', '2026-01-02T03:04:05.600'],
    ['2026-01-02 03:04:05 UTC', '2026-01-02T03:04:05.000'],
    ['2026-01-02 03:04:05+00', '2026-01-02T03:04:05.000'],
    ['2026-01-02T03:04:05+02:00', '2026-01-02T01:04:05.000'],
    ['2026-01-02', '2026-01-02T00:00:00.000'],
    ['not a time', 'not a time'],
    [null, null],
    [17, 17],
  ]) {
    assert.deepEqual(data({}, { orders__last_order: [value] }), [{ 'orders.last_order': want }], String(value));
  }
  assert.deepEqual(data({}, { orders__status: ['2026-01-02 03:04:05'] }), [{ 'orders.status': '2026-01-02 03:04:05' }]);
});

test('a granularity is also the dimension', () => {
  const day = '2026-01-02T00:00:00.000';
  const month = '2026-01-01T00:00:00.000';
  assert.deepEqual(data({}, { orders__created_at_day: [day] }), [{ 'orders.created_at.day': day, 'orders.created_at': day }]);
  const both = { 'orders.created_at.day': day, 'orders.created_at.month': month, 'orders.created_at': day };
  assert.deepEqual(data({}, { orders__created_at_day: [day], orders__created_at_month: [month] }), [both]);
  assert.deepEqual(data({}, { orders__created_at_month: [month], orders__created_at_day: [day] }), [both]);
  const time = '2026-01-02T03:04:05.000';
  assert.deepEqual(data({ query: { dimensions: ['orders.created_at'] } }, { orders__created_at: [time], orders__created_at_day: [day] }), [
    { 'orders.created_at': time, 'orders.created_at.day': day },
  ]);
});

test('compact and columnar formats', () => {
  const columns = { orders__created_at_day: ['2026-01-02', '2026-01-03'], orders__count: [1, 2] };
  const members = ['orders.created_at.day', 'orders.count', 'orders.created_at'];
  const [first, second] = ['2026-01-02T00:00:00.000', '2026-01-03T00:00:00.000'];
  assert.deepEqual(data({ resType: 'compact' }, columns), { members, dataset: [[first, 1, first], [second, 2, second]] });
  assert.deepEqual(data({ resType: 'columnar' }, columns), { members, columns: [[first, second], [1, 2], [first, second]] });
});

test('no rows', () => {
  const query = { measures: ['orders.count'], timeDimensions: [{ dimension: 'orders.created_at', dateRange: [] }] };
  assert.deepEqual(data({ query }, {}), []);
  assert.deepEqual(data({ query, resType: 'compact' }, {}), { members: [], dataset: [] });
  assert.deepEqual(data({ query, resType: 'columnar' }, {}), { members: [], columns: [] });
});

test('hidden members are refused, with and without rows', () => {
  assert.throws(() => data({}, { orders__id: [1] }), /hidden member: 'orders__id'/);
  assert.throws(() => data({}, { unknown: [1] }), /hidden member: 'unknown'/);
  assert.throws(() => data({ query: { dimensions: ['orders.id'] } }, {}), /hidden member: 'orders.id'/);
  assert.throws(() => data({ query: { measures: [{ name: 'other' }] } }, {}), /hidden member: 'other'/);
  const timeDimensions = [{ dimension: 'orders.created_at', granularity: 'year' }];
  assert.throws(() => data({ query: { timeDimensions } }, {}), /hidden member: 'orders.created_at.year'/);
});

test('the response without what the query does not have', () => {
  const response = { query: { limit: 1 }, total: null, external: undefined, slowQuery: false };
  assert.deepEqual(single({}, { orders__count: [1] }, response), { query: { limit: 1 }, slowQuery: false, data: [{ 'orders.count': 1 }] });
  assert.equal(single({}, { orders__count: [1] }, { total: 0 }).total, 0);
});

test('date ranges are compared', () => {
  const queries = [['2026-01-01T00:00:00.000', '2026-01-31T23:59:59.999'], ['2026-02-01T00:00:00.000', '2026-02-28T23:59:59.999']]
    .map((dateRange) => ({ dimensions: ['orders.status'], timeDimensions: [{ dimension: 'orders.created_at', dateRange }] }));
  const queryType = 'compareDateRangeQuery';
  const transforms = queries.map((query) => transform({ query, queryType }));
  const raws = [raw({ orders__count: [1] }), raw({})];
  const response = JSON.parse(results.multi(transforms, raws, { queryType, results: queries.map((query) => ({ query })), slowQuery: false }));
  assert.deepEqual(response, {
    queryType,
    results: [
      { query: queries[0], data: [{ 'orders.count': 1, compareDateRange: '2026-01-01T00:00:00.000 - 2026-01-31T23:59:59.999' }] },
      { query: queries[1], data: [] },
    ],
    pivotQuery: { ...queries[0], dimensions: ['compareDateRange', 'orders.status'], queryType },
    slowQuery: false,
  });
});

test('queries are blended', () => {
  const time = (dimension) => [{ dimension, granularity: 'day' }];
  const queries = [
    { measures: ['orders.count'], timeDimensions: time('orders.created_at') },
    { measures: ['orders.last_order'], dimensions: ['orders.status'], timeDimensions: time('orders.created_at') },
  ];
  const queryType = 'blendingQuery';
  const day = '2026-01-02T00:00:00.000';
  const columns = { orders__count: [1], orders__created_at_day: [day] };
  assert.deepEqual(data({ query: queries[0], queryType }, columns), [
    { 'orders.count': 1, 'orders.created_at.day': day, 'orders.created_at': day, 'time.day': day },
  ]);
  assert.deepEqual(data({ query: queries[0], queryType, resType: 'compact' }, columns), {
    members: ['orders.count', 'orders.created_at.day', 'orders.created_at', 'time.day'], dataset: [[1, day, day, day]],
  });
  const transforms = queries.map((query) => transform({ query, queryType }));
  const raws = queries.map(() => raw(columns));
  assert.deepEqual(JSON.parse(results.multi(transforms, raws, { queryType, results: queries.map((query) => ({ query })), slowQuery: true })).pivotQuery, {
    measures: ['orders.count', 'orders.last_order'], dimensions: ['orders.status'],
    timeDimensions: [{ dimension: 'time', granularity: 'day' }], queryType,
  });
});

test('results of Cube Store are refused', () => {
  assert.throws(() => results.single(transform({}), {}, {}), /Cube Store needs Cube's native addon/);
});
