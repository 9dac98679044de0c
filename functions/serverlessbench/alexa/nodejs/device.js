'use strict';

// Switches one device (the environment's DEVICE) on, by the device's own server.

const { request } = require('./http');

exports.main = async () => {
  const started = Date.now();
  const device = process.env.DEVICE;
  const { status, json } = await request('POST', `${process.env.DEVICES_URL}/${device}`, { req_switch: 'ON' });
  if (status !== 200) throw new Error(`the device ${device} answered with status ${status}`);
  return { speech: json.text, startTimes: { [device]: started } };
};
