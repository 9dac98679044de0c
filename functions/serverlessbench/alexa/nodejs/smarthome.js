'use strict';

// Coming home: with the right password everything is switched on, all devices at once.

const { call } = require('./call');

const DEVICES = ['door', 'light', 'tv', 'air-conditioning', 'plug'];

exports.main = async ({ request }) => {
  const started = Date.now();
  const startTimes = { smarthome: started };
  const password = request.intent?.slots?.password?.value;
  if (!password) return { speech: 'say your password', shouldEndSession: false, startTimes };
  if (password.toLowerCase() !== process.env.PASSWORD.toLowerCase()) {
    return { speech: 'wrong-token', shouldEndSession: true, startTimes };
  }
  const answers = await Promise.all(DEVICES.map((device) => call(`alexa-home-${device}`, { request: { type: 'LaunchRequest' } })));
  return {
    speech: answers.map(({ speech }) => speech).join(', '),
    shouldEndSession: true,
    startTimes: Object.assign(startTimes, ...answers.map((answer) => answer.startTimes)),
  };
};
