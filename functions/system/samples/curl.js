// Fetches an address, and gives what it answers. It may connect to the outside (network `egress`).
const MOST = 900_000; // a result may have a megabyte

async function main({ payload }) {
  if (typeof payload !== 'string' || payload === '') return { error: "'payload' is the address to fetch" };
  const url = /^[a-z]+:\/\//i.test(payload) ? payload : `http://${payload}`;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(30_000) });
    const text = await response.text();
    return { msg: text.slice(0, MOST) };
  } catch (error) {
    return { error: `${url} could not be fetched: ${error.cause?.message ?? error.message}` };
  }
}

module.exports = { main };
