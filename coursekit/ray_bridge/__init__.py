"""All that reads Ray's records, or changes how Ray behaves."""
