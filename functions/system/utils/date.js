// What time it is.
function main() {
  const date = new Date();
  console.log(`It is now ${date}`);
  return { date };
}

module.exports = { main };
