// Puts lines in order, as text.
function main({ lines = [] }) {
  if (!Array.isArray(lines)) return { error: "'lines' is an array" };
  return { lines: [...lines].sort(), length: lines.length };
}

module.exports = { main };
