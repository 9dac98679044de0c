'use strict';

// Gets and puts objects of an S3 store, with signature version 4. The environment says where: S3_URL, S3_BUCKET, S3_REGION,
// S3_ACCESS_KEY, S3_SECRET_KEY. The connection is kept.

const { createHash, createHmac } = require('node:crypto');
const http = require('node:http');

const agent = new http.Agent({ keepAlive: true });
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const hmac = (key, data) => createHmac('sha256', key).update(data).digest();

const get = (key) => ask('GET', key, Buffer.alloc(0));
const put = (key, data) => ask('PUT', key, data);

function ask(method, key, data) {
  const place = new URL(process.env.S3_URL);
  const path = `/${process.env.S3_BUCKET}/${key.split('/').map(encodeURIComponent).join('/')}`;
  const options = { method, agent, headers: { ...signed(method, place.host, path, data), 'content-length': data.length } };
  return new Promise((resolve, reject) => {
    const sent = http.request(new URL(path, place), options, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        const body = Buffer.concat(parts);
        if (answer.statusCode === 200) resolve(body);
        else reject(new Error(`${method} ${path}: the store answered with ${answer.statusCode}: ${body.toString().slice(0, 300)}`));
      });
    });
    sent.on('error', reject);
    sent.end(data);
  });
}

function signed(method, host, path, data) {
  const { S3_REGION: region, S3_ACCESS_KEY: accessKey, S3_SECRET_KEY: secretKey } = process.env;
  const now = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  const digest = sha256(data);
  const headers = { host, 'x-amz-content-sha256': digest, 'x-amz-date': now };
  const names = Object.keys(headers).join(';');
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}`);
  const scope = `${now.slice(0, 8)}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', now, scope, sha256([method, path, '', ...lines, '', names, digest].join('\n'))].join('\n');
  const key = scope.split('/').reduce(hmac, `AWS4${secretKey}`);
  const signature = createHmac('sha256', key).update(text).digest('hex');
  return { ...headers, authorization: `AWS4-HMAC-SHA256 Credential=${accessKey}/${scope}, SignedHeaders=${names}, Signature=${signature}` };
}

module.exports = { get, put };
