'use strict';

function main() {
  return {;
}
