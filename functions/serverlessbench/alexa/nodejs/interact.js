'use strict';

// Voice analysis: which intent of the skill's interaction model the utterance is, with which slots, and the request that the
// skill gets for it.

const { call } = require('./call');
const { envelope } = require('./envelope');

const MODELS = {
  fact: require('./models/fact.json'),
  reminder: require('./models/reminder.json'),
  smarthome: require('./models/smarthome.json'),
};

exports.main = async ({ skill, utter }) => {
  const started = Date.now();
  if (!Object.hasOwn(MODELS, skill)) {
    return { speech: `there is no skill called ${skill}`, startTimes: { interact: started } };
  }
  const answer = await call(`alexa-${skill}`, envelope(skill, intentOf(MODELS[skill], utter)));
  return { ...answer, startTimes: { interact: started, ...answer.startTimes } };
};

/** The first intent with a sample that fits; undefined when the skill is only opened. */
function intentOf({ intents }, utter) {
  const said = utter.replace(/^(?:ask|open|launch|talk to|tell)\s+\S+(?:\s+to\s+)?/i, '').trim();
  if (!said) return undefined;
  for (const { name, samples } of intents) {
    for (const sample of samples) {
      const slots = slotsOf(sample, said);
      if (slots) return { name, slots };
    }
  }
  return { name: 'AMAZON.FallbackIntent', slots: {} };
}

/** The slots of `sample` ("put {item} in {place}") as they are in `said`. */
function slotsOf(sample, said) {
  const names = [];
  const pattern = sample
    .split(/(\{\w+\})/)
    .map((part) => {
      if (!part.startsWith('{')) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      names.push(part.slice(1, -1));
      return '(.+?)';
    })
    .join('');
  const found = said.match(new RegExp(`^${pattern}$`, 'i'));
  return found && Object.fromEntries(names.map((name, index) => [name, { name, value: found[index + 1], confirmationStatus: 'NONE' }]));
}
