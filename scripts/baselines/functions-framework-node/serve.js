'use strict';

// Serves a function that takes params by the framework, which listens on every address unless it is asked for its server.
//      serve.js FILE PORT

const framework = require('@google-cloud/functions-framework');
const { getTestServer } = require('@google-cloud/functions-framework/testing');

const { main } = require(process.argv[2]);

framework.http('function', async (request, response) => {
  response.json(await main(request.body));
});
getTestServer('function').listen(Number(process.argv[3]), '127.0.0.1');
