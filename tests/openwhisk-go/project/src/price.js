function main({ pieces, each, organic, baker, note, currency }) {
  return { text: `${pieces * each} ${currency}`, organic, baker, note };
}
