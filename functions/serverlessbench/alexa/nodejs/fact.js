'use strict';

// A fact about space, in the language of the request.

const FACTS = require('./models/facts.json');

exports.main = ({ request }) => {
  const started = Date.now();
  const facts = FACTS[request.locale.slice(0, 2)] ?? FACTS.en;
  const fact = facts[Math.floor(Math.random() * facts.length)];
  return {
    speech: `Here is your fact: ${fact}`,
    card: { type: 'Simple', title: 'Space facts', content: fact },
    shouldEndSession: true,
    startTimes: { fact: started },
  };
};
