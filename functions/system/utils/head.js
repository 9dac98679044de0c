// The first lines, one unless it is said how many.
function main({ lines = [], num }) {
  if (!Array.isArray(lines)) return { error: "'lines' is an array" };
  const count = num || 1;
  return { lines: lines.slice(0, count), num: count };
}

module.exports = { main };
