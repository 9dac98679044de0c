'use strict';

// Calls another function of the platform and waits for its answer. GATEWAY_URL is where functions reach the platform,
// GATEWAY_AUTH the key (user:password).

const { request } = require('./http');

async function call(name, params) {
  const { status, json } = await request('POST', `${process.env.GATEWAY_URL}/v1/functions/${name}/invoke`, params, {
    authorization: `Basic ${Buffer.from(process.env.GATEWAY_AUTH).toString('base64')}`,
  });
  if (status !== 200) throw new Error(`${name} answered with status ${status}: ${JSON.stringify(json)}`);
  return json;
}

module.exports = { call };
