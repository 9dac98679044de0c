'use strict';
// What is done depends on the event's type.

function size(value) {
  if (Array.isArray(value)) return value.length;
  return typeof value === 'string' ? value.length : value.amount;
}

function add(a, b) {
  return a + b;
}

exports.main = async ({ kind, value }) => {
  switch (kind) {
    case 'sum': return { result: add(value, 1) };
    case 'text': return { result: add(value, '!'), size: size(value) };
    case 'list': return { result: value.map((one) => add(one, 0.5)), size: size(value) };
    default: return { size: size(value), keys: Object.keys(value).sort((a, b) => (a < b ? -1 : 1)) };
  }
};
