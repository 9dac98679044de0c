// An ES module: imports, await at the top, an export; the hooks are a global in each version.
import { createHash } from 'crypto';
import { setTimeout as later } from 'timers/promises';

const salt = await later(1, 'salt');
let restored = 0;
flint.afterRestore(async () => { restored += 1; });

async function digest(text) {
  await later(1);
  return createHash('sha256').update(salt + text).digest('hex');
}

export async function main({ text }) {
  return { digest: await digest(text), restored, url: import.meta.url.startsWith('file:') };
}
