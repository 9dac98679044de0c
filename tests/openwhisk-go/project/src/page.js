function main({ dish }) {
  return { headers: { 'content-type': 'text/html' }, body: `<p>${dish || 'bread'}</p>` };
}
