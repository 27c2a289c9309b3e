// Commands for a terminal, for the server that shows this page.

const isDefault = /^http:\/\/(localhost|127\.0\.0\.1):2379$/.test(location.origin);

export const cli = (words) => `inkstone ${words}${isDefault ? "" : ` --endpoints=${location.origin}`}`;
