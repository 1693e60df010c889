/** A bound for the chunks in which a client sends the body of a request. */

/** Chunks beside one for each 256 bytes: each takes time and memory, however small it is. */
export const mostChunks = 1_000;

/** Whether a body has come in too many chunks. @param bytes how many there are so far */
export const hasTooManyChunks = (chunks: number, bytes: number): boolean => chunks > mostChunks + bytes / 256;
