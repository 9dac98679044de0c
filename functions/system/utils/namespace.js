// The namespace of the key that it was called with.
function main() {
  return { namespace: process.env.__OW_NAMESPACE };
}

module.exports = { main };
