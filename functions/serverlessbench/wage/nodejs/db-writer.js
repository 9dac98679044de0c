'use strict';

// Stores a wage as the document idID of the database wages; a later one of the same id replaces it.

const { request } = require('./http');

exports.main = async (wage) => {
  const started = Date.now();
  const url = `${process.env.COUCHDB_URL}/wages/id${wage.id}`;
  for (let attempt = 0; attempt < 20; attempt++) {
    const { status, json } = await request('GET', url);
    if (status !== 200 && status !== 404) throw new Error(`the store answered with ${status}`);
    const written = await request('PUT', url, { _rev: json._rev, 'wage-person': wage });
    if (written.status === 201) {
      return { result: 'stored', id: written.json.id, total: wage.total, realpay: wage.realpay, startTimes: { 'db-writer': started } };
    }
    if (written.status !== 409) throw new Error(`the store answered with ${written.status}`);
  }
  throw new Error(`${url} is changed by others all the time`);
};
