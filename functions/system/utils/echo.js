// Gives back what it gets.
function main(params) {
  return params;
}

module.exports = { main };
