// The closing line: how many tests passed and failed.

export default async function* summary(events) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for await (const { type, data } of events) {
    // A file is a test of its own when it cannot be loaded.
    if (data?.details?.type === 'suite') continue;
    if (type === 'test:fail') count.failed += 1;
    else if (type === 'test:pass' && data.skip !== undefined) count.skipped += 1;
    else if (type === 'test:pass' && !data.name.endsWith('.mjs')) count.passed += 1;
  }
  yield `\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`;
}
