import { Upload } from "tus-js-client";
import { csrfToken } from "../base/csrf";

// How this portal wants its tus requests: CSRF token, pieces that a lost connection does not make dear, many tries.

export const PIECE_BYTES = 16 * 1024 * 1024;
export const RETRY_MS = [0, 500, 1000, 2000, 4000, 8000, 15_000, 30_000, 30_000, 30_000, 60_000, 60_000];
export const ENDPOINT = "/uploads/";

/** The refusal's own sentence, when the portal gave one. */
export function reasonOf(error: unknown): string {
  const body = (error as { originalResponse?: { getBody(): string } | null }).originalResponse?.getBody();
  try {
    const told = JSON.parse(body ?? "") as { errors?: { detail: string }[] };
    return told.errors?.map((one) => one.detail).join(" ") ?? "";
  } catch {
    return "";
  }
}

/** Send a small file in one go; resolves with the upload's address. Rejects with the portal's reason. */
export function sendFile(
  file: File,
  metadata: Record<string, string>,
  onShare: (share: number) => void,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      endpoint: ENDPOINT,
      chunkSize: PIECE_BYTES,
      retryDelays: RETRY_MS,
      metadata: { filename: file.name, ...metadata },
      headers: { "X-CSRFToken": csrfToken() },
      storeFingerprintForResuming: false,
      onProgress: (sent, total) => onShare(total > 0 ? sent / total : 1),
      onSuccess: () => resolve(upload.url ?? ""),
      onError: (error) => reject(new Error(reasonOf(error))),
    });
    upload.start();
  });
}
