export async function twice(n) {
  return n * 2;
}

export const delay = () => new Promise((resolve) => setImmediate(resolve));
