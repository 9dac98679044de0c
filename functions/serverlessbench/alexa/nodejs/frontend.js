'use strict';

// What the user said, to the skill that is meant: "open FACT" or "open SMARTHOME to I love Taylor Swift".

const { call } = require('./call');

const SAID = /^(?:ask|open|launch|talk to|tell)\s+(.+)$/;

exports.main = async ({ utter = '' }) => {
  const started = Date.now();
  const said = utter.trim().match(new RegExp(SAID, 'i'));
  if (!said) {
    return { speech: 'i cannot understand you, please repeat', startTimes: { frontend: started } };
  }
  const [skill, ...rest] = said[1].split(/\s+to\s+/i);
  const answer = await call('alexa-interact', {
    skill: skill.toLowerCase(),
    utter: rest.length ? `open ${skill} to ${rest.join(' to ')}` : utter,
  });
  return { ...answer, startTimes: { frontend: started, ...answer.startTimes } };
};
