// Puts everything under one name: {a: 1, $fieldName: 'p'} becomes {p: {a: 1}}.
function main({ $fieldName: name, ...rest }) {
  if (typeof name !== 'string') return { error: "Expected an argument '$fieldName' of type 'string'." };
  return { [name]: rest };
}

module.exports = { main };
