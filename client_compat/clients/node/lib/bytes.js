/** Keys, values and header values: base64 text or null on the control protocol's side, Buffer or null on the clients'. */

export function toBuffer(text) {
  return text === null || text === undefined ? null : Buffer.from(text, 'base64');
}

export function toText(bytes) {
  if (bytes === null || bytes === undefined) return null;
  return (Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes)).toString('base64');
}
