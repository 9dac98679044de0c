// The address at which an action or a trigger of the caller's is called.
const EXTENSIONS = ['.json', '.text', '.html', '.http'];

function main({ path, web, ext, trigger }) {
  const { __OW_API_HOST: host, __OW_NAMESPACE: namespace } = process.env;
  if (web === true && trigger) return { error: 'triggers are not allowed for web actions.' };
  if (web === true && ext && !EXTENSIONS.includes(ext)) {
    return { error: `extension for web action must be one of ${JSON.stringify(EXTENSIONS)}.` };
  }
  if (trigger && path && path.includes('/')) return { error: 'triggers are not allowed in packages.' };

  if (web !== true) {
    const base = `${host}/api/v1/namespaces/${namespace}/${trigger === true ? 'triggers' : 'actions'}`;
    return { url: path ? `${base}/${path}` : base };
  }
  const base = `${host}/api/v1/web/${namespace}`;
  const inPackage = path && !path.includes('/') ? `default/${path}` : path;
  return { url: path ? `${base}/${inPackage}${ext || '.json'}` : base };
}

module.exports = { main };
