// Writes a line into its log.
function main({ payload }) {
  console.log(`hello ${payload}!`);
  return {};
}

module.exports = { main };
