// Parses simple statements of the SQL API and turns them into JSON queries:
//
//   SELECT <column, DATE_TRUNC('<granularity>', <column>) or MEASURE(<column>)> [[AS] <name>], …
//   FROM <cube or view> [[AS] <alias>] [WHERE <conditions>] [GROUP BY …] [ORDER BY …] [LIMIT <n>] [OFFSET <n>]
//
// All other SQL is refused with what is not supported.
'use strict';

class Unsupported extends Error {
  constructor(what) {
    super(`${what} in SQL needs Cube's native addon, which this image does not have`);
  }
}

const tokenForm = /\s+|--[^\n]*|(?<string>'(?:[^']|'')*')|(?<quoted>"(?:[^"]|"")+")|(?<number>\d+(?:\.\d+)?)|(?<name>[\p{L}_][\p{L}\p{N}_$]*)|(?<symbol><=|>=|<>|!=|::|[(),.;*=<>+\-/%])/yu;

// tokens returns the tokens of a statement, each with its kind and value. Names are folded to lower case, quoted ones are not.
function tokens(sql) {
  const out = [];
  tokenForm.lastIndex = 0;
  while (tokenForm.lastIndex < sql.length) {
    const at = tokenForm.lastIndex;
    const match = tokenForm.exec(sql);
    if (!match) {
      throw new Error(`SQL: unexpected ${JSON.stringify(sql.slice(at, at + 20))}`);
    }
    const { string, quoted, number, name, symbol } = match.groups;
    if (string !== undefined) {
      out.push({ kind: 'string', value: string.slice(1, -1).replaceAll("''", "'") });
    } else if (quoted !== undefined) {
      out.push({ kind: 'name', value: quoted.slice(1, -1).replaceAll('""', '"'), quoted: true });
    } else if (number !== undefined) {
      out.push({ kind: 'number', value: number });
    } else if (name !== undefined) {
      out.push({ kind: 'name', value: name.toLowerCase() });
    } else if (symbol !== undefined) {
      out.push({ kind: 'symbol', value: symbol });
    }
  }
  return out;
}

const reserved = new Set(['select', 'from', 'where', 'group', 'having', 'order', 'limit', 'offset', 'as', 'and', 'or', 'not', 'union', 'join', 'cross', 'inner', 'left', 'on', 'is', 'in', 'between', 'like', 'ilike', 'asc', 'desc']);

// Parser reads a statement by recursive descent.
class Parser {
  constructor(sql) {
    this.tokens = tokens(sql);
    this.at = 0;
  }

  next() { return this.tokens[this.at] || { kind: 'end', value: 'the end' }; }

  is(value, ahead = 0) {
    const token = this.tokens[this.at + ahead];
    return token !== undefined && token.kind !== 'string' && !token.quoted && token.value === value;
  }

  accept(...values) {
    if (!values.every((value, i) => this.is(value, i))) {
      return false;
    }
    this.at += values.length;
    return true;
  }

  expect(...values) {
    if (!this.accept(...values)) {
      throw new Unsupported(`${JSON.stringify(this.next().value)} instead of ${values.join(' ').toUpperCase()}`);
    }
  }

  take(kind, what) {
    const token = this.next();
    if (token.kind !== kind || (kind === 'name' && !token.quoted && reserved.has(token.value))) {
      throw new Unsupported(`${JSON.stringify(token.value)} instead of ${what}`);
    }
    this.at++;
    return token.value;
  }

  list(read) {
    const out = [read()];
    while (this.accept(',')) {
      out.push(read());
    }
    return out;
  }

  statement() {
    this.expect('select');
    const out = { select: this.list(() => this.item()), group: null, order: [], limit: null, offset: null, where: null };
    this.expect('from');
    out.from = this.take('name', 'a cube or view');
    out.alias = this.alias() || out.from;
    if (this.accept('where')) {
      out.where = this.or();
    }
    if (this.accept('group', 'by')) {
      out.group = this.list(() => this.reference());
    }
    if (this.accept('order', 'by')) {
      out.order = this.list(() => this.ordered());
    }
    for (const key of ['limit', 'offset']) {
      if (this.accept(key)) {
        out[key] = Number(this.take('number', 'a number'));
      }
    }
    this.accept(';');
    if (this.next().kind !== 'end') {
      throw new Unsupported(JSON.stringify(this.next().value));
    }
    return out;
  }

  alias() {
    if (this.accept('as')) {
      return this.take('name', 'a name');
    }
    const token = this.next();
    return token.kind === 'name' && (token.quoted || !reserved.has(token.value)) ? this.take('name', 'a name') : null;
  }

  item() {
    const expression = this.expression();
    return { ...expression, alias: this.alias() };
  }

  // expression reads a column, MEASURE or DATE_TRUNC.
  expression() {
    if (this.accept('measure', '(')) {
      const column = this.column();
      this.expect(')');
      return { column, measure: true, name: `measure(${column.name})` };
    }
    if (this.accept('date_trunc', '(')) {
      const granularity = this.take('string', 'a granularity').toLowerCase();
      this.expect(',');
      const column = this.column();
      this.expect(')');
      return { column, granularity, name: `date_trunc(${granularity},${column.name})` };
    }
    const column = this.column();
    return { column, name: column.name };
  }

  column() {
    const first = this.take('name', 'a column');
    if (this.is('(')) {
      throw new Unsupported(`the function ${first}`);
    }
    return this.accept('.') ? { table: first, name: this.take('name', 'a column') } : { name: first };
  }

  // reference reads the number of a column of the result, or an expression, which may be its name.
  reference() {
    return this.next().kind === 'number' ? { position: Number(this.take('number', 'a number')) } : this.expression();
  }

  ordered() {
    const out = { ...this.reference(), desc: false };
    if (this.accept('desc')) {
      out.desc = true;
    } else {
      this.accept('asc');
    }
    return out;
  }

  or() {
    const parts = [this.and()];
    while (this.accept('or')) {
      parts.push(this.and());
    }
    return parts.length === 1 ? parts[0] : { or: parts };
  }

  and() {
    const parts = [this.condition()];
    while (this.accept('and')) {
      parts.push(this.condition());
    }
    return parts.length === 1 ? parts[0] : { and: parts };
  }

  condition() {
    if (this.accept('(')) {
      const inner = this.or();
      this.expect(')');
      return inner;
    }
    const column = this.column();
    if (this.accept('is')) {
      const not = this.accept('not');
      this.expect('null');
      return { column, operator: not ? 'is not null' : 'is null', values: [] };
    }
    const not = this.accept('not');
    if (this.accept('in', '(')) {
      const values = this.list(() => this.literal());
      this.expect(')');
      return { column, operator: not ? '<>' : '=', values };
    }
    if (this.is('like') || this.is('ilike')) {
      const insensitive = this.next().value === 'ilike';
      this.at++;
      return { column, operator: 'like', not, insensitive, values: [this.literal()] };
    }
    if (!not && this.accept('between')) {
      const from = this.literal();
      this.expect('and');
      const to = this.literal();
      return { and: [{ column, operator: '>=', values: [from] }, { column, operator: '<=', values: [to] }] };
    }
    const operator = this.next().value;
    if (not || !['=', '<>', '!=', '<', '<=', '>', '>='].includes(operator) || this.next().kind !== 'symbol') {
      throw new Unsupported(`the condition ${JSON.stringify(operator)}`);
    }
    this.at++;
    return { column, operator: operator === '!=' ? '<>' : operator, values: [this.literal()] };
  }

  literal() {
    if ((this.is('date') || this.is('timestamp')) && this.tokens[this.at + 1]?.kind === 'string') {
      this.at++;
    }
    const sign = this.accept('-') ? '-' : '';
    const token = this.next();
    if (token.kind === 'number' || (token.kind === 'string' && !sign)) {
      this.at++;
      return sign + token.value;
    }
    if (!sign && (this.is('true') || this.is('false'))) {
      this.at++;
      return token.value;
    }
    throw new Unsupported(`the value ${JSON.stringify(token.value)}`);
  }
}

const operators = { '=': 'equals', '<>': 'notEquals', '<': 'lt', '<=': 'lte', '>': 'gt', '>=': 'gte', 'is null': 'notSet', 'is not null': 'set' };
const timeOperators = { '<': 'beforeDate', '<=': 'beforeOrOnDate', '>': 'afterDate', '>=': 'afterOrOnDate' };

// Planner finds the columns of a statement in the metadata of the caller.
class Planner {
  constructor(statement, cubes) {
    this.statement = statement;
    this.cube = cubes.find(({ name }) => name === statement.from) || cubes.find(({ name }) => name.toLowerCase() === statement.from);
    if (!this.cube) {
      throw new Error(`SQL: table '${statement.from}' not found`);
    }
  }

  // member returns a column with its kind and type.
  member({ table, name }) {
    if (table === undefined || table === this.statement.alias || table === this.statement.from) {
      for (const kind of ['measures', 'dimensions']) {
        const found = (this.cube[kind] || []).find((member) => member.name.toLowerCase() === `${this.cube.name}.${name}`.toLowerCase());
        if (found) {
          return { name: found.name, type: found.type, aggType: found.aggType, measure: kind === 'measures' };
        }
      }
    }
    throw new Error(`SQL: column '${table === undefined ? '' : `${table}.`}${name}' not found in '${this.statement.from}'`);
  }

  // output returns a column of the result: the member and its name in rows.
  output(item) {
    const member = this.member(item.column);
    if (member.measure !== Boolean(item.measure)) {
      throw new Unsupported(member.measure ? `the measure ${member.name} without MEASURE()` : `MEASURE() of the dimension ${member.name}`);
    }
    if (item.granularity && member.type !== 'time') {
      throw new Error(`SQL: DATE_TRUNC of ${member.name}, which is of type ${member.type}`);
    }
    const key = item.granularity ? `${member.name}.${item.granularity}` : member.name;
    return { name: item.alias || item.name, key, member: member.name, granularity: item.granularity, measure: member.measure, type: columnType(member) };
  }

  // resolve returns the column of the result that GROUP BY or ORDER BY names.
  resolve(reference, columns) {
    const named = reference.column && !reference.measure && !reference.granularity && reference.column.table === undefined
      ? columns.find(({ name }) => name === reference.column.name) : undefined;
    const found = reference.position !== undefined ? columns[reference.position - 1] : named || columns.find(({ key }) => key === this.output(reference).key);
    if (!found) {
      throw new Unsupported('GROUP BY or ORDER BY of what SELECT does not have');
    }
    return found;
  }

  filter(condition) {
    for (const key of ['and', 'or']) {
      if (condition[key]) {
        return { [key]: condition[key].map((part) => this.filter(part)) };
      }
    }
    const member = this.member(condition.column);
    if (member.measure) {
      throw new Unsupported(`a condition on the measure ${member.name}`);
    }
    const { operator, values } = condition;
    if (operator === 'like') {
      return { member: member.name, ...like(condition) };
    }
    const comparison = ['<', '<=', '>', '>='].includes(operator);
    if (member.type === 'time' && values.length) {
      if (!comparison) {
        throw new Unsupported(`${operator} on times`);
      }
      return { member: member.name, operator: timeOperators[operator], values: values.map(instant) };
    }
    if (comparison && member.type !== 'number') {
      throw new Unsupported(`${operator} on values of type ${member.type}`);
    }
    return values.length ? { member: member.name, operator: operators[operator], values } : { member: member.name, operator: operators[operator] };
  }

  plan(maxRows) {
    const { select, group, order, where, limit, offset } = this.statement;
    const columns = select.map((item) => this.output(item));
    const dimensions = columns.filter(({ measure }) => !measure);
    const grouped = group !== null || columns.some(({ measure }) => measure);
    const listed = new Set((group || []).map((reference) => this.resolve(reference, columns)));
    const ungrouped = grouped && dimensions.find((column) => !listed.has(column));
    if (ungrouped) {
      throw new Error(`SQL: column '${ungrouped.name}' must appear in GROUP BY`);
    }
    if ([...listed].some(({ measure }) => measure)) {
      throw new Error('SQL: GROUP BY has a measure');
    }
    const query = {
      measures: columns.filter(({ measure }) => measure).map(({ member }) => member),
      dimensions: dimensions.filter(({ granularity }) => !granularity).map(({ member }) => member),
      timeDimensions: dimensions.filter(({ granularity }) => granularity).map(({ member: dimension, granularity }) => ({ dimension, granularity })),
      segments: [],
      order: order.map((reference) => [this.resolve(reference, columns).member, reference.desc ? 'desc' : 'asc']),
      limit: limit === null ? maxRows : limit,
    };
    if (where) {
      query.filters = where.and ? where.and.map((part) => this.filter(part)) : [this.filter(where)];
    }
    if (offset !== null) {
      query.offset = offset;
    }
    if (!grouped) {
      query.ungrouped = true;
    }
    return { query, columns };
  }
}

// like returns the operator for a pattern with % at its ends.
function like({ not, insensitive, values: [pattern] }) {
  const text = pattern.replace(/^%|%$/g, '');
  const [begins, ends] = [pattern.startsWith('%'), pattern.length > 1 && pattern.endsWith('%')];
  if (!insensitive || /[%_\\]/.test(text) || (!begins && !ends)) {
    throw new Unsupported(insensitive ? `the pattern ${JSON.stringify(pattern)}` : 'LIKE, other than ILIKE,');
  }
  let operator = begins ? 'endsWith' : 'startsWith';
  if (begins && ends) {
    operator = 'contains';
  }
  return { operator: not ? `not${operator[0].toUpperCase()}${operator.slice(1)}` : operator, values: [text] };
}

// instant returns a time with its time of day: a date alone would stand for the whole day.
function instant(value) {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,3}))?)?$/.exec(value);
  if (!match) {
    throw new Error(`SQL: ${JSON.stringify(value)} is not a time`);
  }
  const [, date, time = '00:00:00', fraction = ''] = match;
  return `${date}T${time}.${fraction.padEnd(3, '0')}`;
}

const counts = ['count', 'countDistinct', 'countDistinctApprox'];

function columnType({ type, aggType, measure }) {
  switch (type) {
    case 'number': return measure && counts.includes(aggType) ? 'Int64' : 'Double';
    case 'boolean': return 'Boolean';
    case 'time': return 'Timestamp';
    default: return 'String';
  }
}

// plan returns the JSON query of a statement and the columns of its result.
function plan(sql, cubes, maxRows) {
  return new Planner(new Parser(sql).statement(), cubes).plan(maxRows);
}

// text returns a value as the SQL API has it in rows: numbers are strings.
function text(value, type) {
  if (value === null || value === undefined) {
    return null;
  }
  switch (type) {
    case 'Boolean': return value === true || value === 'true' || value === 't';
    case 'Double': return String(Number(value));
    default: return String(value);
  }
}

module.exports = { plan, text, Unsupported };
