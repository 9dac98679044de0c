// Counts the words of a text.
function main({ payload }) {
  if (typeof payload !== 'string') return { error: "'payload' is the text whose words are counted" };
  const count = payload.split(/\s+/).filter((word) => word !== '').length;
  console.log(`The message '${payload}' has ${count} words`);
  return { count };
}

module.exports = { main };
