// Makes responses of /v1/load from rows of a database: https://cube.dev/docs/reference/rest-api.
'use strict';

const compareDateRange = 'compareDateRange';

// Granularities from the smallest to the largest. Custom ones come last.
const granularities = ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'];

// single returns the response of one query, as JSON.
//
// transform has the query, its type, the annotations of its visible members, and their names by the aliases
// of columns. raw has the columns of the result, and response everything but the data.
function single(transform, raw, response) {
  return encode(complete(transform, raw, response));
}

// multi returns the response of all queries that a query was split into, for instance into one for each date range.
function multi(transforms, raws, { queryType, results, slowQuery }) {
  return encode({
    queryType,
    results: results.map((response, i) => complete(transforms[i], raws[i], response)),
    pivotQuery: pivotQuery(queryType, results.map((response) => response.query)),
    slowQuery,
  });
}

const encode = (response) => Buffer.from(JSON.stringify(response));

// complete adds the data to a response, and leaves out what it does not have, such as a total.
function complete(transform, raw, response) {
  const present = Object.entries(response).filter(([, value]) => value !== null && value !== undefined);
  return { ...Object.fromEntries(present), data: dataOf(transform, parse(raw)) };
}

function parse(raw) {
  if (!Buffer.isBuffer(raw)) {
    throw new Error("A result of Cube Store needs Cube's native addon, which this image does not have");
  }
  return JSON.parse(raw);
}

// dataOf returns the rows in the query's format.
function dataOf(transform, { members: aliases, columns }) {
  const fields = fieldsOf(transform, aliases);
  const values = fields.map((field) => valuesOf(field, columns));
  const members = fields.map((field) => field.name);
  if (transform.resType === 'columnar') {
    return { members, columns: values };
  }
  const rows = Array.from({ length: columns.length ? columns[0].length : 0 }, (_, row) => row);
  if (transform.resType === 'compact') {
    return { members, dataset: rows.map((row) => values.map((column) => column[row])) };
  }
  return rows.map((row) => Object.fromEntries(members.map((name, i) => [name, values[i][row]])));
}

function valuesOf(field, columns) {
  if (field.column === undefined) {
    return columns[0].map(() => field.constant);
  }
  const values = columns[field.column];
  return field.type === 'time' ? values.map(formatTime) : values;
}

// fieldsOf returns the members of a row: the columns, and those that repeat a column or a part of the query.
function fieldsOf({ aliasToMemberNameMap, annotation, query, queryType }, aliases) {
  if (!aliases.length) {
    checkVisible(query, annotation);
    return [];
  }
  const fields = aliases.map((alias, column) => {
    const name = aliasToMemberNameMap[alias];
    if (!name || !annotation[name]) {
      throw hidden(alias);
    }
    return { name, column, type: annotation[name].type };
  });
  fields.push(...withoutGranularity(fields, query));
  if (queryType === 'compareDateRangeQuery') {
    fields.push({ name: compareDateRange, constant: query.timeDimensions[0].dateRange.join(' - ') });
  }
  if (queryType === 'blendingQuery') {
    const { dimension, granularity } = query.timeDimensions[0];
    const source = fields.find((field) => field.name === `${dimension}.${granularity}`);
    fields.push({ ...source, name: `time.${granularity}` });
  }
  return fields;
}

// withoutGranularity repeats time dimensions that have a granularity under their own name, unless the query asks for
// the dimension itself. The smallest granularity wins.
function withoutGranularity(fields, query) {
  const smallest = new Map();
  for (const field of fields) {
    const [cube, member, granularity] = field.name.split('.');
    const name = `${cube}.${member}`;
    if (granularity === undefined || (query.dimensions || []).includes(name)) {
      continue;
    }
    const rank = granularities.includes(granularity) ? granularities.indexOf(granularity) : granularities.length;
    if (!smallest.has(name) || rank <= smallest.get(name).rank) {
      smallest.set(name, { rank, field: { ...field, name } });
    }
  }
  return [...smallest.values()].map(({ field }) => field);
}

// checkVisible is for results without rows, which have no columns. A member that the user may not see is not annotated.
function checkVisible({ measures = [], dimensions = [], timeDimensions = [] }, annotation) {
  const requested = [
    ...measures, ...dimensions,
    ...timeDimensions.filter((time) => time.granularity).map((time) => `${time.dimension}.${time.granularity}`),
  ];
  for (const member of requested) {
    const name = typeof member === 'string' ? member : member.name;
    if (!annotation[name]) {
      throw hidden(name);
    }
  }
}

const hidden = (member) => new Error(`You requested hidden member: '${member}'. Please make it visible using \`public: true\`.`);

const dateTime = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}:\d{2})(?:\.(\d+))?)?(?: ?(?:UTC|Z|[+-]00(?::?00)?))?$/;

// formatTime returns a time in UTC with milliseconds and without a zone. A value that is no time is returned unchanged.
function formatTime(value) {
  if (typeof value !== 'string') {
    return value;
  }
  const match = dateTime.exec(value);
  if (match) {
    const [, date, time = '00:00:00', fraction = ''] = match;
    return `${date}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}`;
  }
  const parsed = new Date(value.replace(' ', 'T'));
  return /[+-]\d{2}:?\d{2}$/.test(value) && !Number.isNaN(parsed.getTime()) ? parsed.toISOString().slice(0, -1) : value;
}

// pivotQuery returns the query whose members all rows have.
function pivotQuery(queryType, queries) {
  const [first] = queries;
  if (queryType === 'compareDateRangeQuery') {
    return { ...first, dimensions: [compareDateRange, ...(first.dimensions || [])], queryType };
  }
  if (queryType === 'blendingQuery') {
    const all = (key) => [...new Set(queries.flatMap((query) => query[key] || []))];
    const { granularity } = queries.flatMap((query) => query.timeDimensions || []).find((time) => time.granularity) || {};
    return { measures: all('measures'), dimensions: all('dimensions'), timeDimensions: [{ dimension: 'time', granularity }], queryType };
  }
  return { ...first, queryType };
}

module.exports = { single, multi };
