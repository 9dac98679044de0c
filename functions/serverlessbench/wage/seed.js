'use strict';

// Fills the database of wages with as many employees as SIZE asks for, the same ones every time. COUCHDB_URL is the server.

const { request } = require('../../clients/http');
const { employees, RECORDS } = require('./employees');

(async () => {
  const server = process.env.COUCHDB_URL;
  for (const database of ['wages', 'statistics']) {
    await request('DELETE', `${server}/${database}`);
    const made = await request('PUT', `${server}/${database}`);
    if (made.status !== 201) throw new Error(`${database}: status ${made.status}`);
  }
  const docs = employees(RECORDS[process.env.SIZE] ?? RECORDS.test)
    .map((wage) => ({ _id: `id${wage.id}`, 'wage-person': wage }));
  const put = await request('POST', `${server}/wages/_bulk_docs`, { docs });
  if (put.status !== 201) throw new Error(`wages: status ${put.status}`);
})();
