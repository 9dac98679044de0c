'use strict';

// Reads all wages, each document by a request of its own, and sums them up by role.

const http = require('node:http');

const { ROLES } = require('./wages');

// The original asks for all documents at once. A thousand connections at once meet limits of the host, not of the function.
const AT_ONCE = 64;

exports.main = async ({ operator }) => {
  const started = Date.now();
  const agent = new http.Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const sums = () => Object.fromEntries(ROLES.map((role) => [role, 0]));
  const statistics = { total: 0, count: sums(), base: sums(), merit: sums() };
  try {
    const { rows } = await get(agent, '_all_docs');
    const wages = await Promise.all(rows.map(async ({ id }) => (await get(agent, id))['wage-person']));
    for (const { role, base, merit, total } of wages) {
      statistics.total += total;
      statistics.count[role] += 1;
      statistics.base[role] += base;
      statistics.merit[role] += merit;
    }
  } finally {
    agent.destroy();
  }
  return { ...statistics, operator, startTimes: { fillup: started } };
};

function get(agent, path) {
  return new Promise((resolve, reject) => {
    http.get(`${process.env.COUCHDB_URL}/wages/${path}`, { agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        if (answer.statusCode !== 200) return reject(new Error(`the store answered ${path} with ${answer.statusCode}`));
        resolve(JSON.parse(Buffer.concat(parts).toString()));
      });
    }).on('error', reject);
  });
}
