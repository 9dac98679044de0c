'use strict';

// What lies where: a document for each place, with the list of items in it.

const { request } = require('./http');

exports.main = async ({ request: asked }) => {
  const started = Date.now();
  const speech = asked.type === 'LaunchRequest' ? 'tell me what to remember, and where' : await reply(asked.intent);
  return { speech, shouldEndSession: true, startTimes: { reminder: started } };
};

async function reply({ name, slots }) {
  if (name === 'AddItem') return add(slots.place.value.toLowerCase(), slots.item.value.toLowerCase());
  if (name === 'RetrieveItem') return retrieve(slots.place.value.toLowerCase());
  return 'i cannot understand you, please repeat';
}

async function add(place, item) {
  // Somebody else may write the same place in between: then the store says 409, and what is there now is read again.
  for (let attempt = 0; attempt < 20; attempt++) {
    const { status, json } = await request('GET', urlOf(place));
    if (status !== 200 && status !== 404) throw new Error(`the store answered with ${status}`);
    const known = status === 200 ? json : { items: [] };
    if (known.items.includes(item)) return `${item} is already in ${place}`;
    const written = await request('PUT', urlOf(place), { ...known, items: [...known.items, item] });
    if (written.status === 201) return `i will remember that ${item} is in ${place}`;
    if (written.status !== 409) throw new Error(`the store answered with ${written.status}`);
  }
  throw new Error(`${place} is changed by others all the time`);
}

async function retrieve(place) {
  const { status, json } = await request('GET', urlOf(place));
  if (status === 404) return `there is not anything you want in ${place}`;
  if (status !== 200) throw new Error(`the store answered with ${status}`);
  return `in ${place} there is ${json.items.join(', ')}`;
}

function urlOf(place) {
  return `${process.env.COUCHDB_URL}/reminders/${encodeURIComponent(place)}`;
}
