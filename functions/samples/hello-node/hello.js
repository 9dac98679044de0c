// The smallest function: parameters in, a JSON object out.
function main({ name = 'world' }) {
  return { greeting: `Hello, ${name}!` };
}

module.exports = { main };
