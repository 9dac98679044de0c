// Greets whoever calls.
export function main({ name = 'world' }) {
  console.log('called by', name);
  return { greeting: `Hello, ${name}!` };
}
