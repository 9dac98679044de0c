'use strict';

// A fresh database of reminders, with one place that holds something. COUCHDB_URL is the server.

const { request } = require('../../clients/http');

(async () => {
  const database = `${process.env.COUCHDB_URL}/reminders`;
  await request('DELETE', database);
  const made = await request('PUT', database);
  const put = await request('PUT', `${database}/garage`, { items: ['car', 'bicycle'] });
  if (made.status !== 201 || put.status !== 201) throw new Error(`${database}: status ${made.status}, ${put.status}`);
})();
