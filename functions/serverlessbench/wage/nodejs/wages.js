'use strict';

// What all steps agree on.

const TAX = 0.0387;
const INSURANCE = 1500;
const ROLES = ['staff', 'teamleader', 'manager'];

/** Base and merit pay after tax. */
const afterTax = (base, merit) => (1 - TAX) * (base + merit);

module.exports = { TAX, INSURANCE, ROLES, afterTax };
