"""Executors for GPU code: buffers, findings, launches and process isolation, shared by the engines below this
package."""
