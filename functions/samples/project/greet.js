// The last of the sequence: what the one before it answered, with a greeting.
exports.main = ({ greeting, name = 'stranger', text }) => ({ entry: `${greeting}, ${name}! You wrote: ${text}` });
