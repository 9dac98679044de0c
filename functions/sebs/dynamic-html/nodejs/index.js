'use strict';

// A page made from a template: a greeting and a list of numbers that look random.

const fs = require('node:fs');
const path = require('node:path');

const mustache = require('mustache');

const TEMPLATE = fs.readFileSync(path.join(__dirname, 'page.html'), 'utf8');

function numbers(count, seed) {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (state * 48271) % 2147483647;
    return state % 1000000;
  });
}

exports.main = ({ user, items, seed }) => ({ html: mustache.render(TEMPLATE, { user, numbers: numbers(items, seed) }) });
