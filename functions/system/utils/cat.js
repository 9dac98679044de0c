// Joins lines to one text, and gives both.
function main({ lines = [] }) {
  if (!Array.isArray(lines)) return { error: "'lines' is an array of strings or numbers" };
  return { lines, payload: lines.join('\n') };
}

module.exports = { main };
