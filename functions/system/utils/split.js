// Takes a text apart at a separator, at its line ends when none is given.
function main({ payload, separator }) {
  if (payload === undefined || payload === null) return { error: "'payload' is the text to split" };
  return { lines: String(payload).split(separator || /\r?\n/), payload };
}

module.exports = { main };
